#include "generate/pattern.h"

#include <algorithm>
#include <bitset>
#include <utility>

#include "generate/pattern_parser.h"

namespace slotstream::generate {
namespace {

constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
    // Days that every year has.
    {"date-time",
     R"(^\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$)"},
    {"date",
     R"(^\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))$)"},
    {"time", R"(^([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$)"},
    {"duration", R"(^P(\d{1,9}W|\d{1,9}D(T\d{1,9}[HMS])?|T(\d{1,9}H)?(\d{1,9}M)?\d{1,9}S)$)"},
    {"email",
     R"(^[A-Za-z0-9_%+-]{1,20}(\.[A-Za-z0-9_%+-]{1,20}){0,2}@([A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?\.){1,3}[A-Za-z]{2,10}$)"},
    {"hostname",
     R"(^([A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?\.){0,4}[A-Za-z]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?$)"},
    {"ipv4", R"(^((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)$)"},
    {"ipv6", R"(^([0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}$)"},
    {"uuid", R"(^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$)"},
    {"uri",
     R"(^[A-Za-z][A-Za-z0-9+.-]{0,15}://[A-Za-z0-9.-]{1,80}(:\d{1,4})?(/[A-Za-z0-9_.~!$&'()*+,;=:@/-]{0,200})?(\?[A-Za-z0-9_.~!$&'()*+,;=:@/?-]{0,200})?$)"},
};

}  // namespace

std::string_view PatternOfFormat(std::string_view format) {
  for (const auto& [name, pattern] : kFormats) {
    if (name == format) return pattern;
  }
  return {};
}

Result<Pattern> Pattern::Compile(std::string_view text, const CharRanges& barred) {
  Pattern pattern;
  SS_RETURN_IF_ERROR(PatternParser(text, barred, pattern).Run());
  pattern.MeasureShortest();
  pattern.MeasureLongest();
  pattern.FindClasses();
  return pattern;
}

void Pattern::FindClasses() {
  classes_ = {0};
  for (const State& state : states_) {
    for (const CharRange& range : state.ranges) {
      classes_.push_back(range.first);
      classes_.push_back(range.second + 1);
    }
  }
  std::sort(classes_.begin(), classes_.end());
  classes_.erase(std::unique(classes_.begin(), classes_.end()), classes_.end());
}

size_t Pattern::ClassOf(char32_t character) const {
  const auto behind = std::upper_bound(classes_.begin(), classes_.end(), character);
  return static_cast<size_t>(behind - classes_.begin()) - 1;
}

// Each state once for every number of characters before it, as far as that matters.
Result<Pattern> Pattern::Bounded(uint64_t min, uint64_t max) const {
  constexpr uint64_t most_states = 50'000;
  if (!possible()) return *this;
  if (states_[start_].shortest >= min && states_[start_].longest <= max) return *this;
  const uint64_t counts = (max == UINT64_MAX ? min : std::min(max, states_[start_].longest)) + 1;
  if (counts > most_states / states_.size()) {
    return Fail(ErrorCode::kResourceLimit, "its lengths and the pattern make too many states");
  }
  Pattern bounded;
  const size_t size = states_.size();
  bounded.states_.resize(size * counts + 1);
  bounded.start_ = start_;
  bounded.end_ = static_cast<uint32_t>(size * counts);
  for (uint64_t count = 0; count < counts; ++count) {
    const bool last = count + 1 == counts;
    for (size_t i = 0; i < size; ++i) {
      State& state = bounded.states_[count * size + i];
      for (uint32_t way : states_[i].free) {
        state.free.push_back(static_cast<uint32_t>(count * size + way));
      }
      if (i == end_ && count >= min && count <= max) state.free.push_back(bounded.end_);
      if (last && max != UINT64_MAX) continue;
      state.ranges = states_[i].ranges;
      state.next = static_cast<uint32_t>((last ? count : count + 1) * size + states_[i].next);
    }
  }
  bounded.MeasureShortest();
  bounded.classes_ = classes_;
  return bounded;
}

// Rounds until nothing changes.
void Pattern::MeasureShortest() {
  states_[end_].shortest = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = states_.size(); i-- > 0;) {
      State& state = states_[i];
      uint32_t best = state.shortest;
      const uint32_t next = states_[state.next].shortest;
      if (!state.ranges.empty() && next != kNever) best = std::min(best, next + 1);
      for (uint32_t way : state.free) best = std::min(best, states_[way].shortest);
      changed |= best != std::exchange(state.shortest, best);
    }
  }
}

// Likewise; a longest way that still grows after as many rounds as there are states goes through a
// loop.
void Pattern::MeasureLongest() {
  constexpr uint64_t endless = UINT64_MAX;
  bool changed = true;
  for (size_t round = 0; changed; ++round) {
    changed = false;
    for (size_t i = states_.size(); i-- > 0;) {
      State& state = states_[i];
      uint64_t best = state.longest;
      const auto extend = [&](uint32_t to, uint64_t step) {
        if (states_[to].shortest == kNever) return;
        const uint64_t longest = states_[to].longest;
        best = std::max(best, longest == endless ? endless : longest + step);
      };
      if (!state.ranges.empty()) extend(state.next, 1);
      for (uint32_t way : state.free) extend(way, 0);
      if (best == state.longest) continue;
      state.longest = round > states_.size() ? endless : best;
      changed = true;
    }
  }
}

PatternRun::PatternRun(const Pattern& pattern, size_t& bytes) : pattern_(pattern), bytes_(bytes) {
  for (char32_t c = 0; c < ascii_classes_.size(); ++c) {
    ascii_classes_[c] = static_cast<uint32_t>(pattern.ClassOf(c));
  }
  Intern({pattern.start_});
}

// The set that `from` leads to without reading.
uint32_t PatternRun::Intern(std::vector<uint32_t> from) {
  std::vector<bool> seen(pattern_.states_.size());
  std::vector<uint32_t> all;
  while (!from.empty()) {
    const uint32_t id = from.back();
    from.pop_back();
    if (seen[id] || pattern_.states_[id].shortest == Pattern::kNever) continue;
    seen[id] = true;
    const Pattern::State& state = pattern_.states_[id];
    if (!state.ranges.empty() || id == pattern_.end_) all.push_back(id);
    from.insert(from.end(), state.free.begin(), state.free.end());
  }
  if (all.empty() && !sets_.empty()) return kDead;
  std::sort(all.begin(), all.end());
  const size_t cost =
      sizeof(Set) + 64 + sizeof(uint32_t) * (pattern_.classes_.size() + 2 * all.size());
  const bool affordable = cost <= bytes_;
  if (all.size() > 1 && !affordable && !ids_.contains(all)) {
    const auto shortest = [this](uint32_t id) { return pattern_.states_[id].shortest; };
    all = {*std::ranges::min_element(all, {}, shortest)};
  }
  const auto [found, fresh] = ids_.try_emplace(all, static_cast<uint32_t>(sets_.size()));
  if (!fresh) return found->second;
  Set set;
  if (affordable) {
    bytes_ -= cost;
    set.steps.assign(pattern_.classes_.size(), kUnknown);
  }
  for (uint32_t id : all) {
    const Pattern::State& state = pattern_.states_[id];
    if (!state.ranges.empty() && pattern_.states_[state.next].shortest != Pattern::kNever) {
      set.readers.push_back(id);
    }
    set.complete = set.complete || id == pattern_.end_;
  }
  Measure(set);
  sets_.push_back(std::move(set));
  return found->second;
}

void PatternRun::Measure(Set& set) const {
  // More than the hexadecimal digits of both cases: what is narrower leaves few tokens.
  constexpr size_t narrow = 24;
  std::bitset<128> ascii;
  uint64_t looked_at = 0;  // ranges, and ways behind them
  for (uint32_t id : set.readers) {
    const Pattern::State& state = pattern_.states_[id];
    looked_at += state.ranges.size() + 1;
    for (const CharRange& range : state.ranges) {
      if (ascii.count() > narrow) break;
      for (char32_t c = range.first; c <= range.second && c < ascii.size(); ++c) ascii.set(c);
    }
  }
  set.wide = ascii.count() > narrow;
  // A set without kept steps is one state, but what follows from it may be all of them.
  if (set.steps.empty()) looked_at += pattern_.states_.size() / 8;
  set.step_work = 1 + looked_at / 4;
}

uint32_t PatternRun::Step(uint32_t set, char32_t character) {
  const size_t of_class =
      character < ascii_classes_.size() ? ascii_classes_[character] : pattern_.ClassOf(character);
  const bool kept = !sets_[set].steps.empty();
  if (kept && sets_[set].steps[of_class] != kUnknown) return sets_[set].steps[of_class];
  std::vector<uint32_t> to;
  for (uint32_t id : sets_[set].readers) {
    const Pattern::State& state = pattern_.states_[id];
    const bool reads = std::ranges::any_of(state.ranges, [character](const CharRange& range) {
      return character >= range.first && character <= range.second;
    });
    if (reads) to.push_back(state.next);
  }
  const uint32_t next = to.empty() ? kDead : Intern(std::move(to));
  if (kept) sets_[set].steps[of_class] = next;
  return next;
}

bool PatternRun::CanRead(uint32_t set, char32_t low, char32_t high) const {
  return std::ranges::any_of(sets_[set].readers, [&](uint32_t id) {
    return std::ranges::any_of(pattern_.states_[id].ranges, [&](const CharRange& range) {
      return range.first <= high && range.second >= low;
    });
  });
}

}  // namespace slotstream::generate
