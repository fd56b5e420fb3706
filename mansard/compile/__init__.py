"""Stage 4 of a call: text -> binary. Knows compilers and the cache, nothing of arrays or devices in use."""
