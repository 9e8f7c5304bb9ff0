"""The dialect ``/v1``: how results and refusals of commands are answered over REST."""
