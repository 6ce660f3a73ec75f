"""Who looks, and what they may see: credentials, sessions and rights. Decides by the API server's word alone."""
