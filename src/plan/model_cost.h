// What a token costs at least, from a checkpoint's own tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace slotstream::plan {

// The matrices of one role, e.g. "linear_attn.in_proj_qkv": the same shape in every layer.
struct MatrixRole {
  std::string name;
  checkpoint::Storage storage;  // kPanels or kBf16
  uint32_t n = 0;
  uint32_t k = 0;
  uint32_t group = 0;   // of panels
  uint32_t count = 0;   // per token
  bool shared = false;  // the calls of one layer share their input
};

struct TokenCost {
  std::vector<MatrixRole> roles;  // routed experts last
  // Read to decode one token: all matrices, norms and convolutions once, the experts of one token,
  // and the recurrent state, which is read and written. Keys and values come on top.
  uint64_t decode_bytes = 0;
  uint64_t state_bytes = 0;  // of them
  // Multiplications and additions of the matrices for one token, and the head's share, which
  // prefill needs once.
  double operations = 0;
  double head_operations = 0;
};

TokenCost CostOf(const checkpoint::Checkpoint& checkpoint);

}  // namespace slotstream::plan
