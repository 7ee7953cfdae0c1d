#include "server/id_source.h"

#include <fmt/format.h>

#include <random>

#include "generate/sampler.h"

namespace slotstream::server {
namespace {

uint64_t RandomNumber() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

IdSource::IdSource() : start_(RandomNumber()) {}

uint64_t IdSource::Number() { return generate::SplitMix64(start_ + ++count_); }

std::string IdSource::Next(std::string_view prefix) {
  const uint64_t number = Number();
  return fmt::format("{}{:016x}{:08x}", prefix, number, generate::SplitMix64(number) >> 32);
}

}  // namespace slotstream::server
