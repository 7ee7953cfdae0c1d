// Chooses the next token from a row of logits.
//
// All arithmetic is float32 in a fixed order, so the choice depends on nothing but the logits, the
// parameters, the seed and what was generated before (promise P1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "generate/penalties.h"
#include "generate/sampling_params.h"

namespace slotstream::generate {

// One step of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators").
uint64_t SplitMix64(uint64_t value);

// Belongs to one sequence and one thread.
class Sampler {
 public:
  // `params` sanitized. Ids from `vocab_size` on have logits (rows are padded) but no token: they
  // are never chosen.
  Sampler(const SamplingParams& params, size_t vocab_size);

  // The next token for `logits` [at least vocab_size]. With a temperature each call takes one
  // random number, whatever the logits: one call for each token that is kept.
  //  1. biases and penalties, as Penalties::Apply says
  //  2. temperature 0: the highest logit, of equals the lowest id
  //  3. logits are divided by the temperature
  //  4. top_k: all that are lower than the k-th highest go; equals of it stay
  //  5. softmax, summed in order of ids
  //  6. top_p: in falling order, equals by id, a token stays while the sum before it is below top_p
  //  7. min_p: what is below min_p times the highest probability goes
  //  8. the first token at which the running sum, in order of ids, reaches u times the total
  // Where the total isn't a positive number the highest of the raw logits is taken.
  uint32_t Sample(std::span<const float> logits);

  // Tells what the prompt was, before the first Sample, and that `id` was generated: penalties are
  // for these.
  void AcceptPrompt(std::span<const uint32_t> ids) { penalties_.AcceptPrompt(ids); }
  void Accept(uint32_t id) { penalties_.Accept(id); }

 private:
  struct Candidate {
    uint32_t id;
    float value;  // scaled logit, then probability
  };

  bool Collect(std::span<const float> logits);
  float Softmax();
  void KeepTopP();
  void KeepMinP();
  uint32_t Pick(float u, std::span<const float> logits) const;
  float NextUniform();

  SamplingParams params_;
  size_t vocab_size_;
  uint64_t state_;
  Penalties penalties_;
  std::vector<float> scaled_;          // [vocab_size], used by Sample
  std::vector<float> heap_;            // of the top-k search
  std::vector<float> exps_;            // of the candidates
  std::vector<Candidate> candidates_;  // by id
  std::vector<Candidate> by_probability_;
};

}  // namespace slotstream::generate
