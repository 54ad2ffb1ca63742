"""What the rules of the workflow ask: inputs, parameters and resources of a job, and the start."""
