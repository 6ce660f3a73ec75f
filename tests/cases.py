"""Faults that acceptance and a red team once found, by name. Each has a test marked `case(name)`: `pytest -m case`."""

ACCEPTANCE: tuple[str, ...] = ()
ATTACKS: tuple[tuple[str, str], ...] = (
    ("attack-1", "a node that was silent for a while never came back, and its pods were lost"),
    ("attack-2", "a pod of another namespace with a job's labels ended the job"),
    ("attack-3", "another authority, or a second installation, cut off every job that ran"),
    ("attack-4", "the operator's account could write anything anywhere"),
    ("attack-5", "one job's token exhausted the operator's memory, or ended its leader"),
    ("attack-6", "a token of one namespace shaped another's plans at Brain and filled its store"),
    ("attack-7", "the embedded store's log, Events and logs grew without bound"),
    ("attack-8", "patterns, patches and YAML held up the embedded API server's event loop"),
    ("attack-9", "half-open connections and strangers' requests took memory and descriptors at every port"),
    ("attack-10", "a damaged byte in the store lost acknowledged objects in silence"),
    ("attack-11", "what the machine lacked counted as the trainer's failure"),
    ("attack-12", "every pod of the embedded cluster had an administrator's token"),
    ("attack-13", "ports, metrics, EDL's own pods and the image were more open than they need to be"),
    ("attack-low-bearer", "a token of bytes that are no text was a 500"),
    ("attack-low-existence", "401 and 404 told which jobs exist"),
    ("attack-low-volumes", "a list of volumes without objects passed validation"),
    ("attack-low-own-faults", "an object that broke our own code was tried for ever in silence"),
    (
        "attack-low-data-tmp",
        "containers that start together raced for ..data_tmp; a leftover link stayed in the way",
    ),
    ("attack-low-terminal", "escape sequences in names, reasons and logs reached the terminal"),
    ("attack-low-quantities", "quantities of any length were computed with"),
    ("attack-low-read-only-home", "a home that is read-only was a traceback"),
    ("attack-low-up-json", "an up.json that an earlier cluster left was believed"),
    ("attack-low-malformed", "2,000 malformed requests left hundreds of MiB behind"),
    ("attack-low-jsonschema", "jsonschema-rs was installed and not used"),
)
