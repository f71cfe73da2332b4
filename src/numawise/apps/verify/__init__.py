"""Whether a job is where it should be: threads, pages and GPUs read, and graded."""
