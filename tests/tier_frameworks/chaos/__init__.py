"""Random changes of a training whose workers live on, one after the other and at once; its ledger must be exact."""
