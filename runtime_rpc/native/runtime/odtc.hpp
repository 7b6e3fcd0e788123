// odtc.h for C++17: a trainer that ends with its scope, and exceptions.
//
//     odtc::Trainer trainer({"program.bin", "parameters.safetensors", "step.so"});
//     std::copy(pixels.begin(), pixels.end(), trainer.tensor("image").begin<float>());
//     std::copy(classes.begin(), classes.end(), trainer.tensor("label").begin<int32_t>());
//     double loss = trainer.step(0.05f);
#ifndef ODTC_HPP
#define ODTC_HPP

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "odtc.h"

namespace odtc {

// What a trainer could not do.
class Error : public std::runtime_error {
 public:
  Error(odtc_code code, const char *message) : std::runtime_error(message), code(code) {}
  const odtc_code code;
};

// Which elements a type of C++ has, as DLPack says it. A type of your own, as of floats of 16 bits, gets a
// specialisation with the two.
template <typename T>
struct Element {
  static_assert(std::is_arithmetic<T>::value, "specialise odtc::Element for this type");
  static constexpr int code = std::is_same<T, bool>::value     ? 6
                              : std::is_floating_point<T>::value ? 2
                                                                 : !std::is_signed<T>::value;
  static constexpr int bits = 8 * sizeof(T);
};

// A tensor of the step; it may not be used behind the end of its trainer.
class Tensor {
 public:
  explicit Tensor(const odtc_tensor &about) : about_(about) {}
  const odtc_tensor &about() const { return about_; }
  // Its elements; throws where they are none of T, as class numbers, which are int32_t, are no int64_t.
  template <typename T>
  T *begin() const {
    using Kind = Element<std::remove_cv_t<T>>;
    if (Kind::code != about_.code || Kind::bits != about_.bits)
      throw Error(ODTC_USAGE, (about_.name + (" is " + named(about_.code, about_.bits)) + ", and " +
                               named(Kind::code, Kind::bits) + " was asked for").c_str());
    return static_cast<T *>(about_.data);
  }
  template <typename T>
  T *end() const { return begin<T>() + about_.bytes / sizeof(T); }

 private:
  static std::string named(int code, int bits) {
    const char *kind = code == 0 ? "int" : code == 1 ? "uint" : code == 2 ? "float" : "bool";
    return code == 6 ? kind : kind + std::to_string(bits);
  }
  odtc_tensor about_;
};

// The paths of a program, of weights and of a library, and how many threads there are; see odtc_options.
struct Options {
  std::string program, weights, library;
  int threads = 0;
  std::string storage = ".";
  std::string name = "";
  const odtc_kernels *kernels = nullptr;
  std::size_t offload_state = 0;
  bool check_weights = true;  // compare weights with the hashes that there are of them
  int gpu = 0;                // of a step for GPUs, as in odtc_options
  std::string gpu_cache = "";
  std::string beside = "";    // a folder with weights that are not in the artifact
};

class Trainer {
 public:
  explicit Trainer(const Options &options) {
    auto text = [](const std::string &given) { return given.empty() ? nullptr : given.c_str(); };
    odtc_options given = {text(options.program), text(options.weights), text(options.library),
                          text(options.storage), options.threads,       text(options.name),
                          options.kernels,            options.offload_state, !options.check_weights,
                          options.gpu,                text(options.gpu_cache), text(options.beside)};
    odtc_trainer *made = nullptr;
    odtc_code code = odtc_open(&given, &made);
    trainer_.reset(made);
    check(code);
  }

  // Throws where there is none of that name.
  Tensor tensor(const std::string &name) const {
    if (const odtc_tensor *found = odtc_find(trainer_.get(), name.c_str())) return Tensor(*found);
    throw Error(ODTC_USAGE, ("there is no tensor " + name).c_str());
  }
  // The mean loss of the batch before the update; 0 where none of its labels counts, see odtc_step().
  double step(float learning_rate) {
    double loss = 0;
    check(odtc_step(trainer_.get(), learning_rate, &loss));
    return loss;
  }
  int64_t steps() const { return odtc_steps(trainer_.get()); }

  // Its data stay until the next step or evaluation.
  Tensor evaluate(const char *output = nullptr, bool averages = false) {
    odtc_tensor result;
    check(odtc_evaluate(trainer_.get(), output, averages, &result));
    return Tensor(result);
  }
  // Of the first samples of what lies in the inputs, at most as many as a step has.
  Tensor evaluate_samples(uint32_t samples, const char *output = nullptr, bool averages = false) {
    odtc_tensor result;
    check(odtc_evaluate_samples(trainer_.get(), output, averages, samples, &result));
    return Tensor(result);
  }
  uint32_t samples_of_step() const { return odtc_samples_of_step(trainer_.get()); }
  // Inputs and labels are to be asked for again then: they have other shapes.
  void set_length(uint64_t length) { check(odtc_set_length(trainer_.get(), length)); }
  uint64_t length_at(size_t number) const { return odtc_length_at(trainer_.get(), number); }
  void set_budget(uint64_t bytes) { check(odtc_set_budget(trainer_.get(), bytes)); }
  void set_threads(int threads) { check(odtc_set_threads(trainer_.get(), threads)); }
  void save(const std::string &path) { check(odtc_save(trainer_.get(), path.c_str())); }
  void load(const std::string &path) { check(odtc_load(trainer_.get(), path.c_str())); }
  // Without the base, of which there may be several adapters; load takes it up.
  void save_adapter(const std::string &path) { check(odtc_save_adapter(trainer_.get(), path.c_str())); }
  /* Whole checkpoints in memory. */
  std::vector<unsigned char> save() {
    void *bytes;
    std::size_t count;
    check(odtc_save_bytes(trainer_.get(), &bytes, &count));
    std::unique_ptr<void, void (*)(void *)> kept(bytes, std::free);
    const auto *first = static_cast<const unsigned char *>(bytes);
    return {first, first + count};
  }
  void load(const std::vector<unsigned char> &bytes) {
    check(odtc_load_bytes(trainer_.get(), bytes.data(), bytes.size()));
  }

  // Any thread may call this at any time.
  void cancel(bool now = false) { odtc_cancel(trainer_.get(), now); }

  // For the functions of odtc.h.
  odtc_trainer *get() const { return trainer_.get(); }

 private:
  struct Close {
    void operator()(odtc_trainer *trainer) const { odtc_close(trainer); }
  };
  void check(odtc_code code) const {
    if (code) throw Error(code, odtc_message(trainer_.get()));
  }
  std::unique_ptr<odtc_trainer, Close> trainer_;
};

}  // namespace odtc
#endif
