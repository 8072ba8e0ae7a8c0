"""Campaign: an operator's grouping of runs, which reports on them and never moves them."""
