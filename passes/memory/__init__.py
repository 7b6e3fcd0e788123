"""The memory plan: offsets of tensors in one arena, which is as small as possible.

This is static allocation (dynamic storage allocation, with all lifespans known): buffers are
rectangles, their place in time is fixed, and their place in memory is chosen so that none overlap.
`solve` chooses it, `validate` checks it. Nothing here knows TVM.
"""
