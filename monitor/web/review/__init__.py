"""Review in the UI: reviewers sign in, label answers one after another, and look through labels."""
