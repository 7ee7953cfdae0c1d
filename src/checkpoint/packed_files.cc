#include "checkpoint/packed_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/sha256.h"

namespace slotstream::checkpoint {
namespace {

// 1,658 tensors at 120 bytes each make 200 KB; far more would be no manifest.
constexpr size_t kMaxManifestBytes = 64 << 20;

std::string Join(const std::string& directory, std::string_view name) {
  return fmt::format("{}/{}", directory, name);
}

}  // namespace

Result<std::string> ReadSideFile(const std::string& directory, const FileIdentity& identity) {
  const std::string path = Join(directory, identity.name);
  SS_ASSIGN_OR_RETURN(std::string text, io::ReadWholeFile(path, kMaxSideFileBytes));
  SS_ASSIGN_OR_RETURN(const std::string sha256, Sha256Hex(std::as_bytes(std::span(text))));
  if (text.size() != identity.bytes || sha256 != identity.sha256) {
    return Fail(ErrorCode::kCorrupt,
                fmt::format("{}: not the file that was packed (its SHA-256 differs from {}'s); "
                            "restore it or pack again",
                            path, kManifestFile));
  }
  return text;
}

Result<PackedHeader> ReadPackedHeader(const std::string& directory) {
  const std::string path = Join(directory, kManifestFile);
  SS_ASSIGN_OR_RETURN(const std::string text, io::ReadWholeFile(path, kMaxManifestBytes));
  SS_ASSIGN_OR_RETURN(const std::vector<FileIdentity> side_files, ParseSideFiles(text, path));
  auto config = std::ranges::find(side_files, "config.json", &FileIdentity::name);
  if (config == side_files.end()) {
    return Fail(ErrorCode::kCorrupt, fmt::format("{}: side_files: lacks config.json", path));
  }
  SS_ASSIGN_OR_RETURN(const std::string config_text, ReadSideFile(directory, *config));
  PackedHeader out;
  SS_ASSIGN_OR_RETURN(out.config, ParseConfig(config_text, Join(directory, "config.json")));
  SS_ASSIGN_OR_RETURN(out.manifest, ParseManifest(text, path, out.config));
  return out;
}

Result<std::unique_ptr<io::File>> OpenPackedFile(const std::string& directory,
                                                 std::string_view name, uint64_t bytes,
                                                 bool direct) {
  SS_ASSIGN_OR_RETURN(std::unique_ptr<io::File> file,
                      io::File::Open(Join(directory, name), direct));
  if (file->size() != bytes) {
    return Fail(ErrorCode::kCorrupt,
                fmt::format("{}: has {} bytes, {} are expected: it is {}; pack again", file->path(),
                            file->size(), bytes, file->size() < bytes ? "truncated" : "too long"));
  }
  return file;
}

Result<std::vector<uint32_t>> ReadChecksums(const std::string& directory,
                                            const Manifest& manifest) {
  SS_ASSIGN_OR_RETURN(
      const std::unique_ptr<io::File> file,
      OpenPackedFile(directory, kChecksumsFile, manifest.layout.checksums_bytes(), false));
  std::vector<uint32_t> checksums(manifest.layout.checksums());
  const auto bytes = std::as_writable_bytes(std::span(checksums));
  SS_RETURN_IF_ERROR(file->ReadAt(0, bytes));
  SS_ASSIGN_OR_RETURN(const std::string sha256, Sha256Hex(bytes));
  if (sha256 != manifest.checksums_sha256) {
    return Fail(ErrorCode::kCorrupt,
                fmt::format("{}: its SHA-256 is not the one in {}: the file is damaged; pack again",
                            file->path(), kManifestFile));
  }
  return checksums;
}

}  // namespace slotstream::checkpoint
