"""Where a step runs: sessions on this machine or a phone, and the trainer that drives them."""
