#include "state/snapshot_places.h"

#include <algorithm>
#include <ranges>

namespace slotstream::state {

std::vector<size_t> PlaceSnapshots(const PromptShape& prompt, const SnapshotLimits& limits) {
  std::vector<size_t> places;
  const auto near = [&](size_t place, size_t other) {
    return (place > other ? place - other : other - place) < limits.nearest;
  };
  const auto add = [&](size_t place) {
    if (places.size() >= limits.most || place <= prompt.begin || place >= prompt.end) return;
    if (near(place, prompt.begin)) return;
    if (std::ranges::any_of(places, [&](size_t other) { return near(place, other); })) return;
    places.push_back(place);
  };
  // Not through add: whatever is near, this one serves every repetition.
  if (limits.most > 0 && prompt.end > prompt.begin + 1) places.push_back(prompt.end - 1);
  add(prompt.common);
  for (const size_t place : prompt.shared_ends) add(place);
  const std::span<const size_t> turns = prompt.turn_ends;
  // The last turn's end is the prompt's own but for the head of the reply.
  if (turns.size() >= 2) add(turns[turns.size() - 2]);
  for (size_t place = prompt.begin / limits.spacing * limits.spacing + limits.spacing;
       place < prompt.end; place += limits.spacing) {
    add(place);
  }
  for (const size_t place : std::views::reverse(turns)) add(place);
  std::ranges::sort(places);
  return places;
}

}  // namespace slotstream::state
