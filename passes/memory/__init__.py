"""The memory plan: where tensors lie in one arena, so that it is as small as can be.

This is static allocation (dynamic storage allocation, with all lifespans known): buffers are
rectangles, their place in time is fixed, and their place in memory is chosen so that none overlap.
`solve` chooses it, `validate` checks it. Nothing here knows TVM.
"""
