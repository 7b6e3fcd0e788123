"""Images in folders by class, as `torchvision.datasets.ImageFolder` has them."""
