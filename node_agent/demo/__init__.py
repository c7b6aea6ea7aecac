"""The main job in one process: the agent's own code on a simulated node, with the API server, the scheduler and the
kubelet played by a few lines each. `python -m node_agent.demo` runs an example of examples/resourceclaims.
"""
