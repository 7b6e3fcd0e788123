"""What other libraries take by another name, and where odtc has it."""
