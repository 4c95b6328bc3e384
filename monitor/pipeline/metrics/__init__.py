"""The series that the pipeline counts."""
