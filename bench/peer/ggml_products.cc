// Times ggml's matrix products for slotstream-bench. Built against a llama.cpp tree by build.sh.
//
//   ggml_products MIB
//
// holds MIB MiB of weights of each type and speaks in lines: first "type NAME" for each type and
// "ready"; then it answers
//
//   case TYPE N K MATRICES ROWS CHOSEN THREADS   with "case ID", or "none" if it cannot
//   run ID                                       with the seconds of one run
//
// A case is MATRICES products [N, K] of ROWS rows, or, where CHOSEN is not 0, one MUL_MAT_ID of
// ROWS tokens that choose CHOSEN of MATRICES experts at random. Every run takes the next weights of
// its type's memory. Between runs the threads sleep.

#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr int64_t kFillInputs = 2560;  // row length of the tensor that fills a type's memory
constexpr size_t kAlignment = 4096;
constexpr size_t kMostPlaces = 64;  // graphs of one case, each with weights of its own

void Die(const char* what) {
  std::fprintf(stderr, "ggml_products: %s\n", what);
  std::exit(1);
}

ggml_backend_buffer_type_t RepackedBufferType() {
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  auto list =
      reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
          ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
  if (list == nullptr) return nullptr;
  for (ggml_backend_buffer_type_t* type = list(device); type != nullptr && *type; ++type) {
    if (std::string(ggml_backend_buft_name(*type)).find("REPACK") != std::string::npos) {
      return *type;
    }
  }
  return nullptr;
}

// The same chances as slotstream-bench gives its own weights.
void WantHugePages(ggml_backend_buffer_t buffer) {
  const auto base = reinterpret_cast<uintptr_t>(ggml_backend_buffer_get_base(buffer));
  const uintptr_t first = (base + kAlignment - 1) / kAlignment * kAlignment;
  const uintptr_t last = (base + ggml_backend_buffer_get_size(buffer)) / kAlignment * kAlignment;
  (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

struct Context {
  explicit Context(size_t tensors, bool graph) {
    ggml_init_params params{};
    params.mem_size =
        ggml_tensor_overhead() * tensors + (graph ? ggml_graph_overhead_custom(tensors, false) : 0);
    params.no_alloc = true;
    context = ggml_init(params);
  }
  ~Context() { ggml_free(context); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ggml_context* context;
};

struct Weights {
  std::string name;
  ggml_type type;
  bool repacked;
  ggml_backend_buffer_t buffer = nullptr;

  bool Fill(size_t bytes) {
    ggml_backend_buffer_type_t kind =
        repacked ? RepackedBufferType() : ggml_backend_cpu_buffer_type();
    if (kind == nullptr) return false;
    const size_t row = ggml_row_size(type, kFillInputs);
    const int64_t rows = static_cast<int64_t>(bytes / row) / 64 * 64;
    buffer = ggml_backend_buft_alloc_buffer(kind, row * static_cast<size_t>(rows) + kAlignment);
    if (buffer == nullptr) return false;
    WantHugePages(buffer);
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    Context context(1, false);
    ggml_tensor* all = ggml_new_tensor_2d(context.context, type, kFillInputs, rows);
    ggml_backend_tensor_alloc(buffer, all, ggml_backend_buffer_get_base(buffer));
    if (repacked && all->extra == nullptr) return false;
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 0.02f);
    std::vector<float> tile(64 * kFillInputs);
    for (float& value : tile) value = normal(random);
    std::vector<uint8_t> data(row * static_cast<size_t>(rows));
    ggml_quantize_chunk(type, tile.data(), data.data(), 0, 64, kFillInputs, nullptr);
    for (size_t at = 64 * row; at < data.size(); at += 64 * row) {
      std::memcpy(data.data() + at, data.data(), 64 * row);
    }
    ggml_backend_tensor_set(all, data.data(), 0, data.size());
    return true;
  }
  size_t size() const { return ggml_backend_buffer_get_size(buffer) - kAlignment; }
};

struct Threads {
  explicit Threads(int count) {
    ggml_threadpool_params params = ggml_threadpool_params_default(count);
    pool = ggml_threadpool_new(&params);
    backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backend, count);
    ggml_backend_cpu_set_threadpool(backend, pool);
    // Something small to wake the threads with, outside the measurement.
    context = std::make_unique<Context>(8, true);
    ggml_tensor* x = ggml_new_tensor_2d(context->context, GGML_TYPE_F32, 64, 64);
    ggml_tensor* y = ggml_add(context->context, x, x);
    wake = ggml_new_graph_custom(context->context, 8, false);
    ggml_build_forward_expand(wake, y);
    buffer = ggml_backend_alloc_ctx_tensors(context->context, backend);
    ggml_backend_buffer_clear(buffer, 0);
  }
  ggml_threadpool_t pool;
  ggml_backend_t backend;
  std::unique_ptr<Context> context;
  ggml_cgraph* wake;
  ggml_backend_buffer_t buffer;
};

struct Case {
  Threads* threads = nullptr;
  std::vector<std::unique_ptr<Context>> contexts;
  std::vector<ggml_cgraph*> graphs;
  ggml_backend_buffer_t activations = nullptr;
  size_t next = 0;

  double Run() {
    ggml_backend_graph_compute(threads->backend, threads->wake);
    const auto start = std::chrono::steady_clock::now();
    ggml_backend_graph_compute(threads->backend, graphs[next]);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    ggml_threadpool_pause(threads->pool);
    next = (next + 1) % graphs.size();
    return elapsed.count();
  }
};

struct Shape {
  int64_t n, k, matrices, rows, chosen;
};

size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::vector<int32_t> RandomChoices(const Shape& shape) {
  std::mt19937 random(1);
  std::vector<int32_t> order(static_cast<size_t>(shape.matrices)), choices;
  std::iota(order.begin(), order.end(), 0);
  for (int64_t token = 0; token < shape.rows; ++token) {
    std::shuffle(order.begin(), order.end(), random);
    choices.insert(choices.end(), order.begin(), order.begin() + shape.chosen);
  }
  return choices;
}

std::unique_ptr<Case> MakeCase(const Weights& weights, const Shape& shape, Threads& threads) {
  if (shape.k % ggml_blck_size(weights.type) != 0) return nullptr;
  const bool routed = shape.chosen > 0;
  const size_t matrix = ggml_row_size(weights.type, shape.k) * static_cast<size_t>(shape.n);
  const auto count = static_cast<size_t>(routed ? 1 : shape.matrices);
  const size_t set = routed ? matrix * static_cast<size_t>(shape.matrices)
                            : Aligned(matrix) * static_cast<size_t>(shape.matrices);
  if (set > weights.size()) return nullptr;
  const size_t places = std::min(weights.size() / set, kMostPlaces);

  // An expert's input of the last matrix is its own; of the others all experts share a token's.
  const int64_t in_rows = routed && shape.k < shape.n ? shape.chosen : 1;
  const size_t x_bytes =
      Aligned(static_cast<size_t>(shape.k * shape.rows * (routed ? in_rows : 1)) * 4);
  const size_t id_bytes = Aligned(static_cast<size_t>(shape.chosen * shape.rows) * 4);
  const size_t y_bytes =
      Aligned(static_cast<size_t>(shape.n * shape.rows * (routed ? shape.chosen : 1)) * 4);
  auto made = std::make_unique<Case>();
  made->threads = &threads;
  made->activations = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(),
                                                     x_bytes + id_bytes + y_bytes * count);
  if (made->activations == nullptr) return nullptr;
  auto* memory = static_cast<uint8_t*>(ggml_backend_buffer_get_base(made->activations));
  auto* base = static_cast<uint8_t*>(ggml_backend_buffer_get_base(weights.buffer));

  for (size_t place = 0; place < places; ++place) {
    auto context = std::make_unique<Context>(3 * count + 16, true);
    ggml_context* c = context->context;
    ggml_cgraph* graph = ggml_new_graph_custom(c, count + 16, false);
    ggml_tensor* x = routed ? ggml_new_tensor_3d(c, GGML_TYPE_F32, shape.k, in_rows, shape.rows)
                            : ggml_new_tensor_2d(c, GGML_TYPE_F32, shape.k, shape.rows);
    ggml_backend_tensor_alloc(made->activations, x, memory);
    ggml_tensor* ids = nullptr;
    if (routed) {
      ids = ggml_new_tensor_2d(c, GGML_TYPE_I32, shape.chosen, shape.rows);
      ggml_backend_tensor_alloc(made->activations, ids, memory + x_bytes);
    }
    for (size_t i = 0; i < count; ++i) {
      ggml_tensor* w = routed
                           ? ggml_new_tensor_3d(c, weights.type, shape.k, shape.n, shape.matrices)
                           : ggml_new_tensor_2d(c, weights.type, shape.k, shape.n);
      ggml_backend_tensor_alloc(weights.buffer, w, base + place * set + i * Aligned(matrix));
      if (weights.repacked && w->extra == nullptr) return nullptr;
      ggml_tensor* y = routed ? ggml_mul_mat_id(c, w, x, ids) : ggml_mul_mat(c, w, x);
      ggml_backend_tensor_alloc(made->activations, y, memory + x_bytes + id_bytes + i * y_bytes);
      if (!ggml_backend_supports_op(threads.backend, y)) return nullptr;
      ggml_build_forward_expand(graph, y);
    }
    if (place == 0) {
      std::vector<float> values(static_cast<size_t>(ggml_nelements(x)));
      std::mt19937 random(2);
      std::normal_distribution<float> normal;
      for (float& value : values) value = normal(random);
      ggml_backend_tensor_set(x, values.data(), 0, values.size() * 4);
      if (routed) {
        const std::vector<int32_t> choices = RandomChoices(shape);
        ggml_backend_tensor_set(ids, choices.data(), 0, choices.size() * 4);
      }
    }
    made->contexts.push_back(std::move(context));
    made->graphs.push_back(graph);
  }
  return made;
}

void PrintWarnings(ggml_log_level level, const char* text, void*) {
  if (level >= GGML_LOG_LEVEL_WARN) std::fputs(text, stderr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) Die("usage: ggml_products MIB");
  ggml_log_set(PrintWarnings, nullptr);
  const size_t bytes = std::strtoull(argv[1], nullptr, 10) << 20;
  std::vector<Weights> types;
  for (Weights weights :
       {Weights{"Q4_0 repacked", GGML_TYPE_Q4_0, true},
        Weights{"Q4_K repacked", GGML_TYPE_Q4_K, true}, Weights{"Q4_K", GGML_TYPE_Q4_K, false}}) {
    if (!weights.Fill(bytes)) continue;
    std::printf("type %s\n", weights.name.c_str());
    types.push_back(weights);
  }
  std::printf("ready\n");
  std::fflush(stdout);

  std::map<int, std::unique_ptr<Threads>> threads;
  std::vector<std::unique_ptr<Case>> cases;
  char line[256];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    size_t type = 0, id = 0;
    int count = 1;
    long n, k, matrices, rows, chosen;
    if (std::sscanf(line, "case %zu %ld %ld %ld %ld %ld %d", &type, &n, &k, &matrices, &rows,
                    &chosen, &count) == 7 &&
        type < types.size()) {
      auto& pool = threads[count];
      if (!pool) pool = std::make_unique<Threads>(count);
      std::unique_ptr<Case> made =
          MakeCase(types[type], Shape{n, k, matrices, rows, chosen}, *pool);
      ggml_threadpool_pause(pool->pool);
      if (made) {
        cases.push_back(std::move(made));
        std::printf("case %zu\n", cases.size() - 1);
      } else {
        std::printf("none\n");
      }
    } else if (std::sscanf(line, "run %zu", &id) == 1 && id < cases.size()) {
      std::printf("%.9f\n", cases[id]->Run());
    } else {
      Die("cannot understand what I am asked");
    }
    std::fflush(stdout);
  }
  return 0;
}
