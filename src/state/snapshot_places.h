// Where in a prompt snapshots are taken.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace slotstream::state {

// What is known of a prompt when its reading begins. Places count tokens from its beginning.
struct PromptShape {
  size_t begin = 0;                     // what a restored state has read already
  size_t end = 0;                       // the prompt's length
  size_t common = 0;                    // as far as anything stored agrees with the prompt
  std::span<const size_t> shared_ends;  // of parts that other conversations have too: tools, system
  std::span<const size_t> turn_ends;    // rising
};

// A snapshot costs as much memory as the rows of some 2,300 tokens at true geometry, and no time
// worth naming.
struct SnapshotLimits {
  size_t most = 0;  // snapshots of one prompt
  // Long parts without a better place get one every so often, for prompts that will differ in their
  // midst: reading this much again takes about a minute on a machine that streams.
  size_t spacing = 4096;
  // Places nearer than this to another are not worth their memory: about a second's reading.
  size_t nearest = 64;
};

// The places, rising, each in (begin, end). The first ones that `most` allows of: one token before
// the end (what asks the same again, or asks it with another kind of reply, needs a token to read);
// where the prompt leaves what is stored; the ends of shared parts; the last turn's beginning, for
// an edit of that turn; every `spacing`; the other turns' ends, latest first.
std::vector<size_t> PlaceSnapshots(const PromptShape& prompt, const SnapshotLimits& limits);

}  // namespace slotstream::state
