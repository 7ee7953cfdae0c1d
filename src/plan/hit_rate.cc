#include "plan/hit_rate.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace slotstream::plan {
namespace {

// Slots a layer of the published model (10 of 512 experts a token), and hit rates there.
struct Point {
  double slots;
  Range rate;
};
constexpr double kChosen = 10;
constexpr double kExperts = 512;
constexpr Point kCurve[] = {
    {10, {.low = 0.305, .typical = 0.361, .high = 0.361}},
    {14, {.low = 0.361, .typical = 0.406, .high = 0.406}},
    {20, {.low = 0.434, .typical = 0.486, .high = 0.502}},
    {30, {.low = 0.546, .typical = 0.568, .high = 0.588}},
    {60, {.low = 0.659, .typical = 0.691, .high = 0.719}},
    {90, {.low = 0.693, .typical = 0.765, .high = 0.797}},
    {128, {.low = 0.793, .typical = 0.827, .high = 0.861}},
    {512, {.low = 1, .typical = 1, .high = 1}},
};

double Between(double a, double b, double part) { return a + (b - a) * part; }

}  // namespace

Range HitRate(const checkpoint::ModelConfig& config, uint64_t slots) {
  const double layer = static_cast<double>(slots) / config.num_layers();
  const double chosen = config.experts_per_token, experts = config.num_experts;
  if (layer >= experts) return {1, 1, 1};
  if (layer < chosen) {
    const double part = std::max(0.0, (layer - chosen / 2) / (chosen - chosen / 2));
    const Range& first = kCurve[0].rate;
    return {first.low * part, first.typical * part, first.high * part};
  }
  // Where the pool lies between `chosen` and `experts`, in slots of the published model.
  const double place = std::log(layer / chosen) / std::log(experts / chosen);
  const double at = kChosen * std::pow(kExperts / kChosen, place);
  const Point* after = std::ranges::find_if(kCurve, [&](const Point& p) { return p.slots > at; });
  if (after == std::end(kCurve)) return kCurve[std::size(kCurve) - 1].rate;
  const Point& before = *std::prev(after);
  const double part = std::log(at / before.slots) / std::log(after->slots / before.slots);
  return {Between(before.rate.low, after->rate.low, part),
          Between(before.rate.typical, after->rate.typical, part),
          Between(before.rate.high, after->rate.high, part)};
}

}  // namespace slotstream::plan
