// The part of ExpertStore that deals with frames: what was expected and read ahead, what of it is
// needed after all, and what becomes of the rest.
#include <algorithm>
#include <utility>

#include "experts/expert_store.h"

namespace slotstream::experts {

// Frames keep what this visit misses; all else that was expected did not come true.
void ExpertStore::DropUnneeded() {
  expected_.clear();
  for (uint32_t need : visit_.missing) {
    if (const auto frame = staged_.Find(KeyOf(need))) uses_[*frame].need = need;
  }
  for (uint32_t frame = 0; frame < staged_.frames(); ++frame) {
    if (!staged_.taken(frame) || uses_[frame].need) continue;
    if (staged_.landed(frame)) {
      KeepOrRelease(frame);
    } else if (reader_->Withdraw(frame)) {
      Release(frame);
    } else {
      uses_[frame].dropped = true;
    }
  }
}

// A record that was read for nothing.
void ExpertStore::KeepOrRelease(uint32_t frame) {
  const ExpertKey key = staged_.key(frame);
  if (pool_.fits_everything() && pool_.Find(key) < 0) {
    if (const auto claimed = pool_.Claim(std::span(&key, 1))) {
      const uint32_t slot = claimed->front();
      staged_.Exchange(frame, pool_.Exchange(slot, staged_.record(frame)));
      pool_.Publish(slot);
      pool_.Unpin(slot);
    }
  } else {
    ++stats_.wasted;
  }
  Release(frame);
}

// True if a frame has the need or is getting it. A read ahead that has not begun gives way to a
// read that goes first.
bool ExpertStore::FromFrame(uint32_t need) {
  const std::optional<uint32_t> frame = staged_.Find(KeyOf(need));
  if (!frame) return false;
  if (staged_.landed(*frame)) {
    Meet(need, *frame);
    return true;
  }
  if (reader_->Withdraw(*frame)) {
    Release(*frame);
    return false;
  }
  // Dropped by an earlier visit, perhaps, and still on its way.
  uses_[*frame] = {.need = need, .awaited = true, .early = true};
  ++visit_.awaited;
  return true;
}

Status ExpertStore::TakeFrameRead(RecordDone& done) {
  const uint32_t frame = done.tag;
  const FrameUse use = uses_[frame];
  if (use.awaited) {
    --visit_.awaited;
    uses_[frame].awaited = false;
  }
  if (use.dropped && done.status) {
    KeepOrRelease(frame);
    return {};
  }
  if (!done.status) {
    if (use.need) visit_.places[*use.need].frame.reset();
    Release(frame);
    return use.awaited ? std::move(done.status) : Status{};
  }
  staged_.Landed(frame);
  if (use.awaited) Meet(*use.need, frame);
  return {};
}

void ExpertStore::Expect(uint32_t layer, std::span<const uint32_t> experts, uint32_t at_once) {
  if (pool_.holds_everything()) return;
  expected_.clear();
  for (uint32_t expert : experts) expected_.push_back({layer, expert});
  reader_->LimitAhead(at_once);
  ReadAhead();
}

// Frames go to what is expected once the open visit has all that it needs.
void ExpertStore::ReadAhead() {
  if (expected_.empty()) return;
  if (visit_.open && visit_.next_missing < visit_.missing.size()) return;
  while (!expected_.empty() && staged_.any_free()) {
    const ExpertKey key = expected_.front();
    expected_.pop_front();
    if (pool_.Find(key) >= 0 || staged_.Find(key)) continue;
    const uint32_t frame = staged_.Take(key);
    uses_[frame].early = true;
    reads_.push_back({.key = key, .record = staged_.record(frame), .tag = frame, .ahead = true});
  }
  SubmitReads();
}

// Takes back the frames whose records the caller has used.
void ExpertStore::ReleaseReturned() {
  for (uint32_t need : visit_.returned) {
    Release(*std::exchange(visit_.places[need].frame, std::nullopt));
  }
  visit_.returned.clear();
}

void ExpertStore::Release(uint32_t frame) {
  uses_[frame] = {};
  staged_.Release(frame);
}

}  // namespace slotstream::experts
