#include "bench/peer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

namespace slotstream::bench {

Result<PeerProducts> PeerProducts::Start(const std::string& directory, size_t memory) {
  PeerProducts peer;
  SS_ASSIGN_OR_RETURN(peer.process_, Subprocess::Start({directory + "/bin/ggml_products",
                                                        std::to_string(memory >> 20)}));
  // "type NAME" lines, then "ready".
  for (;;) {
    SS_ASSIGN_OR_RETURN(const std::string line, peer.process_->ReadLine());
    if (line == "ready") return peer;
    if (!line.starts_with("type ")) {
      return Fail(ErrorCode::kCorrupt,
                  fmt::format("{}/bin/ggml_products says '{}', not a type", directory, line));
    }
    peer.types_.push_back(line.substr(5));
  }
}

Result<std::optional<int>> PeerProducts::Prepare(const std::string& type,
                                                 const ProductCase& product_case, int threads) {
  const auto at = std::find(types_.begin(), types_.end(), type) - types_.begin();
  const uint32_t rows = product_case.chosen > 0 ? product_case.tokens : product_case.rows[0];
  process_->WriteLine(fmt::format("case {} {} {} {} {} {} {}", at, product_case.n, product_case.k,
                                  product_case.rows.size(), rows, product_case.chosen, threads));
  SS_ASSIGN_OR_RETURN(const std::string answer, process_->ReadLine());
  if (!answer.starts_with("case ")) return std::nullopt;
  return std::atoi(answer.c_str() + 5);
}

double PeerProducts::Run(int id) {
  process_->WriteLine(fmt::format("run {}", id));
  const Result<std::string> answer = process_->ReadLine();
  return answer ? std::strtod(answer->c_str(), nullptr) : 0;
}

Result<PeerSpeed> RunLlamaBench(const std::string& directory, const std::string& model, int threads,
                                size_t prompt, size_t decode,
                                const std::vector<std::string>& more) {
  const std::string program = directory + "/bin/llama-bench";
  std::vector<std::string> arguments = {program,
                                        "-m",
                                        model,
                                        "-t",
                                        std::to_string(threads),
                                        "-p",
                                        std::to_string(prompt),
                                        "-n",
                                        std::to_string(decode),
                                        "-r",
                                        "1",
                                        "-o",
                                        "jsonl"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  SS_ASSIGN_OR_RETURN(std::unique_ptr<Subprocess> process, Subprocess::Start(arguments));
  SS_ASSIGN_OR_RETURN(const std::string text, process->ReadAll());
  PeerSpeed speed;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const auto test = nlohmann::json::parse(text.substr(begin, end - begin), nullptr, false);
    begin = end + 1;
    if (!test.is_object()) continue;
    const auto number = [&](const char* key) {
      const auto found = test.find(key);
      return found != test.end() && found->is_number() ? found->get<double>() : 0.0;
    };
    (number("n_gen") > 0 ? speed.decode : speed.prefill) = number("avg_ts");
  }
  if (speed.prefill > 0 && speed.decode > 0) return speed;
  return Fail(ErrorCode::kCorrupt, fmt::format("{} printed no speeds:\n{}", program, text));
}

}  // namespace slotstream::bench
