#include "cli/prefix_cache_options.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

namespace slotstream::cli {
namespace {

// Beyond any machine; keeps the conversion to bytes exact.
constexpr double kMostGb = 1e6;
constexpr int64_t kSecondsPerDay = 24 * 3600;

Result<uint64_t> ToBytes(const char* flag, double gigabytes) {
  if (!(gigabytes > 0 && gigabytes < kMostGb)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} {} is not an amount of bytes", flag, gigabytes));
  }
  return static_cast<uint64_t>(std::llround(gigabytes * 1e9));
}

}  // namespace

void AddPrefixCacheOptions(CLI::App& command, PrefixCacheOptions& options) {
  CLI::Option* off =
      command.add_flag("--no-prefix-cache", options.off, "Read every prompt from its beginning");
  command
      .add_option("--prefix-cache-memory-gb", options.memory_gb,
                  "Memory for states of conversations, decimal GB (default: a share)")
      ->excludes(off);
  CLI::Option* directory =
      command
          .add_option("--prefix-cache-dir", options.directory,
                      "Directory that keeps states of conversations (default: none)")
          ->type_name("DIR")
          ->excludes(off);
  command.add_option("--prefix-cache-gb", options.disk_gb, "Most of it, decimal GB")
      ->capture_default_str()
      ->needs(directory);
  command
      .add_option("--prefix-cache-min-tokens", options.min_tokens, "Shortest state that it keeps")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 20))
      ->capture_default_str()
      ->needs(directory);
  command
      .add_option("--prefix-cache-max-age-days", options.max_age_days,
                  "It drops states unused for so long; 0: never")
      ->check(CLI::Range(0, 36'500))
      ->capture_default_str()
      ->needs(directory);
}

Status ApplyPrefixCache(const PrefixCacheOptions& options, const CLI::App& command,
                        plan::Wishes& wishes, engine::PrefixDiskOptions& disk) {
  wishes.prefix_cache_bytes = options.off ? std::optional<uint64_t>(0) : std::nullopt;
  if (command.count("--prefix-cache-memory-gb") > 0) {
    SS_ASSIGN_OR_RETURN(wishes.prefix_cache_bytes,
                        ToBytes("--prefix-cache-memory-gb", options.memory_gb));
  }
  disk.directory = options.directory;
  SS_ASSIGN_OR_RETURN(disk.quota_bytes, ToBytes("--prefix-cache-gb", options.disk_gb));
  disk.min_tokens = options.min_tokens;
  disk.max_age_seconds = options.max_age_days * kSecondsPerDay;
  return {};
}

}  // namespace slotstream::cli
