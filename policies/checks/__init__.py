"""What the rules look for: pure functions from resources to findings, one module for each subject."""
