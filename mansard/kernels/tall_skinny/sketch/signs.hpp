// The sign matrix S of a sketch Y = S A / 4: which rows of Y a row of A is added to, and with which signs.
//
// Y has eight groups of SIGNS rows. The eight rows of A of an octet (rows 8 b .. 8 b + 7) go to one group each: row
// 8 b + p to group p ^ turn(b), with SIGNS independent signs. So neighbouring heavy rows never share a group more than
// others do, and a group of SIGNS rows keeps up to SIGNS of them apart. Everything follows from the row's number and a
// key, never from who reads the row.
//
// spec.py has the same in NumPy.
#pragma once
#ifndef MANSARD_HOST_DEVICE
#define MANSARD_HOST_DEVICE constexpr
#endif

namespace mansard {

constexpr int SKETCH_GROUPS = 8, SIGNS_PER_WORD = 32;

// A bijection of 32-bit words every output bit of which depends on every input bit (lowbias32, Wellons 2018).
MANSARD_HOST_DEVICE u32 scrambled(u32 x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}
MANSARD_HOST_DEVICE u32 sign_key(i64 seed, u32 salt) {
  return scrambled(scrambled(static_cast<u32>(seed) + salt) ^ static_cast<u32>(seed >> 32));
}
MANSARD_HOST_DEVICE u32 scrambled_with(i64 number, u32 key) {
  return scrambled(static_cast<u32>(number) ^ (static_cast<u32>(number >> 32) * 0x9e3779b9u) ^ key);
}

// Keys of one sketch: of the turns of octets, and of the words of signs.
struct SignKeys {
  u32 turns, words;

  MANSARD_HOST_DEVICE explicit SignKeys(i64 seed) : turns(sign_key(seed, 1)), words(sign_key(seed, 2)) {}
  MANSARD_HOST_DEVICE int turn(i64 octet) const { return static_cast<int>(scrambled_with(octet, turns) % SKETCH_GROUPS); }
  // Bit i is set if the row is subtracted from row 32 w + i of its group.
  MANSARD_HOST_DEVICE u32 word(i64 row, int w) const {
    return scrambled_with(row, words + static_cast<u32>(w) * 0x9e3779b9u);
  }
};

}  // namespace mansard
