"""Convolutions of 3x3 taps in Winograd's form.

`product` is the kernel; `cut` says how it is cut and when it is worth its transforms, of which
`terms` has the sums and `patches` that of images.
"""
