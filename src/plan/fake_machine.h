// A directory that looks like a machine's /proc and /sys, for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "io/test_directory.h"
#include "plan/machine.h"
#include "plan/system_files.h"

namespace slotstream::plan {

class FakeMachine {
 public:
  FakeMachine& With(const std::string& path, const std::string& text) {
    const std::filesystem::path full = directory_.path() + "/" + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
    return *this;
  }
  FakeMachine& WithLink(const std::string& path, const std::string& target) {
    const std::filesystem::path full = directory_.path() + "/" + path;
    std::filesystem::create_directories(full.parent_path());
    std::filesystem::create_directory_symlink(directory_.path() + "/" + target, full);
    return *this;
  }
  FakeMachine& WithMemory(uint64_t mib) {
    return With("proc/meminfo",
                "MemTotal:       99999999 kB\nMemFree:             7 kB\n"
                "MemAvailable:   " +
                    std::to_string(mib * 1024) + " kB\n");
  }
  // A group of version 2, with `file` bytes of page cache.
  FakeMachine& WithGroup(const std::string& path, const std::string& max, uint64_t current,
                         uint64_t file) {
    const std::string directory = "sys/fs/cgroup/" + path;
    return With(directory + "/memory.max", max + "\n")
        .With(directory + "/memory.current", std::to_string(current) + "\n")
        .With(directory + "/memory.stat",
              "anon 1\nfile_mapped 3\nfile " + std::to_string(file) + "\nfile_dirty 5\n");
  }
  FakeMachine& WithOldGroup(const std::string& path, uint64_t limit, uint64_t usage,
                            uint64_t cache) {
    const std::string directory = "sys/fs/cgroup/memory/" + path;
    return With(directory + "/memory.limit_in_bytes", std::to_string(limit) + "\n")
        .With(directory + "/memory.usage_in_bytes", std::to_string(usage) + "\n")
        .With(directory + "/memory.stat",
              "cache 17\nmapped_file 3\ntotal_cache " + std::to_string(cache) + "\n");
  }

  const std::string& root() const { return directory_.path(); }
  SystemFiles files() const { return SystemFiles(root()); }
  uint64_t Available() const { return ReadMachineFacts(root()).memory_available; }

 private:
  io::TestDirectory directory_;
};

}  // namespace slotstream::plan
