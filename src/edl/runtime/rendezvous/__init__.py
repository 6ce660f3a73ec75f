"""How the agents of a PyTorch job agree on who trains together: rounds, decided in the job service, told at once.

`lobby` decides (pure), `messages` is what is said, `link` an agent's end of the conversation; nothing of these needs
torch. `handler`, `agent` and `warm` are what torchrun loads.
"""
