"""The page that `odtc report` writes: one file, which needs no network.

Charts are SVG whose places are percentages, so that lines stretch with the window and texts do not;
colours are variables of the page's style, so that one picture serves light and dark. A plotting
library would bring a picture for each, or a megabyte of script.
"""
