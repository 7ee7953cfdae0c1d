#include "checkpoint/resident.h"

#include <fmt/format.h>

#include <algorithm>

namespace slotstream::checkpoint {

const ResidentTensor* ResidentLayout::Find(std::string_view name) const {
  auto found = std::ranges::find(tensors, name, &ResidentTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

Result<const ResidentTensor*> ResidentPart::Get(std::string_view name, Storage storage) const {
  const ResidentTensor* tensor = layout_.Find(name);
  if (tensor == nullptr) {
    return Fail(ErrorCode::kInternal, fmt::format("no resident tensor is called {}", name));
  }
  if (tensor->storage != storage) {
    return Fail(ErrorCode::kInternal,
                fmt::format("resident tensor {} has storage {}, not {}", name,
                            StorageName(tensor->storage), StorageName(storage)));
  }
  return tensor;
}

Result<PanelMatrix> ResidentPart::panels(std::string_view name) const {
  SS_ASSIGN_OR_RETURN(const ResidentTensor* tensor, Get(name, Storage::kPanels));
  return PanelMatrix{memory_.data() + tensor->offset,
                     PanelShape{tensor->n, tensor->k, tensor->group}};
}

Result<RowTable> ResidentPart::rows(std::string_view name) const {
  SS_ASSIGN_OR_RETURN(const ResidentTensor* tensor, Get(name, Storage::kRows));
  return RowTable{memory_.data() + tensor->offset, tensor->n, tensor->k, tensor->group};
}

Result<Bf16Matrix> ResidentPart::bf16(std::string_view name) const {
  SS_ASSIGN_OR_RETURN(const ResidentTensor* tensor, Get(name, Storage::kBf16));
  return Bf16Matrix{reinterpret_cast<const uint16_t*>(memory_.data() + tensor->offset), tensor->n,
                    tensor->k};
}

Result<const float*> ResidentPart::floats(std::string_view name) const {
  SS_ASSIGN_OR_RETURN(const ResidentTensor* tensor, Get(name, Storage::kFloat32));
  return reinterpret_cast<const float*>(memory_.data() + tensor->offset);
}

std::string_view StorageName(Storage storage) {
  switch (storage) {
    case Storage::kPanels:
      return "panels";
    case Storage::kRows:
      return "rows";
    case Storage::kBf16:
      return "bf16";
    case Storage::kFloat32:
      return "float32";
  }
  return "unknown";
}

}  // namespace slotstream::checkpoint
