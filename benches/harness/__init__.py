"""What the bars of the project are measured with; ../run.py is the command."""
