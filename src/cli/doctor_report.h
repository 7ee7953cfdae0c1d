// What `doctor` found, as a page and as JSON.
#pragma once

#include <string>

#include "engine/examination.h"

namespace slotstream::cli {

// `model` is what to call the model: a path that may be shown, or a name.
std::string FormatExamination(const engine::Examination& examination, const std::string& model);

// Schema version 1: bytes, bytes per second, tokens per second; ranges as [low, typical, high].
std::string ExaminationJson(const engine::Examination& examination, const std::string& model);

}  // namespace slotstream::cli
