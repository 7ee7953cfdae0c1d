#include "checkpoint/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

namespace slotstream::checkpoint {

struct Sha256::State {
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context{EVP_MD_CTX_new()};
  bool ok = false;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  state_->ok = state_->context != nullptr &&
               EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) == 1;
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  state_->ok =
      state_->ok && EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1;
}

Result<std::string> Sha256::Hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  if (!state_->ok || EVP_DigestFinal_ex(state_->context.get(), digest.data(), &size) != 1) {
    return Fail(ErrorCode::kInternal, "the SHA-256 of libcrypto failed");
  }
  std::string out;
  for (unsigned i = 0; i < size; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

Result<std::string> Sha256Hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Hex();
}

}  // namespace slotstream::checkpoint
