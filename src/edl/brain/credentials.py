"""The Brain's token key and TLS certificate, in files that may be replaced while it serves."""

import logging
import ssl
from pathlib import Path

from edl.brain.keys import key_at

log = logging.getLogger(__name__)


class Credentials:
    """`tls` None: plain HTTP. ValueError says which file cannot be used."""

    def __init__(self, key: Path, certificate: Path | None = None, certificate_key: Path | None = None) -> None:
        self._key, self._certificate, self._certificate_key = key, certificate, certificate_key
        self.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) if certificate else None
        self._stamp = self._stamps()
        self.key = self._load()

    def reload(self) -> bool:
        """Whether the files changed; new contents are used from the next call on, unusable ones are ignored."""
        stamp = self._stamps()
        if stamp == self._stamp:
            return False
        try:
            self.key = self._load()
        except ValueError as error:
            log.warning("the old key and certificate are kept: %s", error)
            return False
        self._stamp = stamp
        log.info("a new key or certificate is used from now on")
        return True

    def _load(self) -> bytes:
        if self.tls is not None and self._certificate is not None:
            try:
                self.tls.load_cert_chain(self._certificate, self._certificate_key)
            except (ssl.SSLError, OSError) as error:
                raise ValueError(f"{self._certificate} cannot be used as a certificate: {error}") from None
        return key_at(self._key)

    def _stamps(self) -> list[tuple[int, int]]:
        """Identities of the files. A missing file has none; reading it fails later."""
        paths = (self._key, self._certificate, self._certificate_key)
        return [(path.stat().st_ino, path.stat().st_mtime_ns) for path in paths if path is not None and path.exists()]
