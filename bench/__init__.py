"""Side-by-side measurements, for anyone to repeat: `./dev bench`, `./dev bench steps`.

Each compares two ways to do one thing, interleaved in one run on one throw-away server,
so that a ratio means something on any machine. Milliseconds differ between machines;
round trips and bytes of the write-ahead log do not.
"""
