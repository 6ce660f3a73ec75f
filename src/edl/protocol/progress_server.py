"""Names by which Hugging Face's Trainer finds a server of its progress. Needs nothing but Python: pods read it."""

URL = "KUBEFLOW_TRAINER_SERVER_URL"
TOKEN_FILE = "KUBEFLOW_TRAINER_SERVER_TOKEN"
CA_FILE = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
CALL = "trainer-status"
"""The call of the job service that takes it."""
