// `slotstream logits`: the logits of every position, to compare with other implementations.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "checkpoint/safetensors.h"
#include "cli/commands.h"
#include "cli/inputs.h"
#include "cli/model_options.h"
#include "state/sequence.h"

namespace slotstream::cli {
namespace {

struct LogitsOptions {
  ModelOptions model;
  std::string ids, ids_file, out;
  bool hidden = false;
};

std::span<const std::byte> Bytes(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

Result<int> WriteLogits(const LogitsOptions& options, const CLI::App& command) {
  std::string text = options.ids;
  if (!options.ids_file.empty()) {
    SS_ASSIGN_OR_RETURN(text, ReadTextFile(options.ids_file));
  }
  SS_ASSIGN_OR_RETURN(std::vector<uint32_t> ids, ParseIds(text));
  SS_ASSIGN_OR_RETURN(std::unique_ptr<engine::LoadedModel> loaded,
                      LoadModel(options.model, command));
  model::Model& model = loaded->model();
  const checkpoint::ModelConfig& config = loaded->config();

  const size_t vocab = config.vocab_size;
  const size_t width = config.hc_width();
  std::vector<float> logits(ids.size() * vocab);
  std::vector<float> hidden(options.hidden ? config.num_layers() * ids.size() * width : 0);
  state::Sequence sequence(config);
  for (size_t first = 0; first < ids.size(); first += model.max_rows()) {
    const size_t rows = std::min(model.max_rows(), ids.size() - first);
    model::Pass pass;
    pass.ids = std::span(ids).subspan(first, rows);
    pass.logit_rows = rows;
    pass.logits = logits.data() + first * vocab;
    if (options.hidden) {
      pass.observe = [&](uint32_t layer, kernels::ConstRows residual, size_t count) {
        for (size_t r = 0; r < count; ++r) {
          std::memcpy(hidden.data() + (layer * ids.size() + first + r) * width, residual.row(r),
                      width * sizeof(float));
        }
      };
    }
    SS_RETURN_IF_ERROR(model.Forward(pass, sequence));
  }

  std::vector<checkpoint::TensorData> tensors = {
      {"logits", checkpoint::Dtype::kF32, {ids.size(), vocab}, Bytes(logits)}};
  if (options.hidden) {
    tensors.push_back({"hidden",
                       checkpoint::Dtype::kF32,
                       {config.num_layers(), ids.size(), width},
                       Bytes(hidden)});
  }
  SS_RETURN_IF_ERROR(checkpoint::WriteSafetensors(options.out, tensors));
  return 0;
}

}  // namespace

void AddLogitsCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<LogitsOptions>();
  CLI::App* command =
      app.add_subcommand("logits", "Write the logits of every position to a safetensors file");
  AddModelOptions(*command, options->model);
  CLI::Option* ids = command->add_option("--ids", options->ids, "Token ids, separated by commas");
  CLI::Option* file = command->add_option("--ids-file", options->ids_file,
                                          "File with token ids; - is standard input");
  ids->excludes(file);
  command->add_option("--out", options->out, "File to write: logits [tokens, vocabulary]")
      ->required()
      ->type_name("FILE");
  command->add_flag("--hidden", options->hidden,
                    "Also the residual streams after each layer: hidden [layers, tokens, streams * "
                    "hidden size]");
  command->callback([options, command, &action] {
    action = [options, command] { return WriteLogits(*options, *command); };
  });
}

}  // namespace slotstream::cli
