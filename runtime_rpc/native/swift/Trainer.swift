import COdtc
import Foundation

/// What a trainer could not do.
public struct TrainerError: LocalizedError {
  /// A number of odtc.h, such as `ODTC_CANCELLED.rawValue`.
  public let code: UInt32
  public let message: String
  public var errorDescription: String? { message }
}

/// A training step at work on this device: odtc.h for Swift.
///
/// One thread at a time may use a trainer; `cancel` may be called by any, at any time.
public final class Trainer {
  private let handle: OpaquePointer?

  /// Makes a trainer.
  ///
  /// - Parameters:
  ///   - kernels: a table of those that are linked into the app, which fits the program.
  ///   - storage: a folder for files in which tensors of a step wait, where some do.
  ///   - threads: of a step; 0 for one for each core, as far as the kernels allow it.
  public init(
    program: URL, weights: URL, kernels: UnsafePointer<odtc_kernels>,
    storage: URL = FileManager.default.temporaryDirectory, threads: Int = 0
  ) throws {
    var opened: OpaquePointer?
    let code: odtc_code = program.path.withCString { program in
      weights.path.withCString { weights in
        storage.path.withCString { storage in
          var options = odtc_options()
          options.program = program
          options.weights = weights
          options.storage = storage
          options.kernels = kernels
          options.threads = Int32(clamping: threads)
          return odtc_open(&options, &opened)
        }
      }
    }
    handle = opened
    try check(code)
  }

  deinit { odtc_close(handle) }

  /// The memory of a tensor of the step: inputs and labels are written there, weights are read there.
  /// It may not be used after the end of the trainer; nil if there is none of that name.
  public func tensor(_ name: String) -> UnsafeMutableRawBufferPointer? {
    guard let found = odtc_find(handle, name) else { return nil }
    return UnsafeMutableRawBufferPointer(start: found.pointee.data, count: found.pointee.bytes)
  }

  /// The shape of a tensor of the step, of inputs and labels at the length of `setLength`; nil if there is
  /// none of that name.
  public func shape(of name: String) -> [Int]? {
    guard let found = odtc_find(handle, name)?.pointee else { return nil }
    return UnsafeBufferPointer(start: found.shape, count: Int(found.rank)).map { Int($0) }
  }

  /// Writes an input or a label, in the order of its shape: class numbers as `Int32`.
  ///
  /// Throws where there is none of that name, or its elements are of another type or number.
  public func write<T>(_ values: [T], to name: String) throws {
    guard let tensor = odtc_find(handle, name)?.pointee else {
      throw refusal("there is no tensor \(name)")
    }
    guard Self.code(of: T.self) == tensor.code, 8 * MemoryLayout<T>.size == Int(tensor.bits) else {
      throw refusal("\(T.self) is not the type of the elements of \(name)")
    }
    let elements = tensor.bytes / MemoryLayout<T>.size
    guard values.count == elements else {
      throw refusal("\(name) has \(elements) elements, and \(values.count) were given")
    }
    let memory = UnsafeMutableRawBufferPointer(start: tensor.data, count: tensor.bytes)
    values.withUnsafeBytes { memory.copyMemory(from: $0) }
  }

  /// Takes a step with what was written to inputs and labels; the mean loss before the update.
  ///
  /// It is 0 of a batch without a label that counts, as where all are those that the loss ignores, whose
  /// gradients are 0, too: leave it out of a mean over steps.
  public func step(learningRate: Float) throws -> Double {
    var loss = 0.0
    try check(odtc_step(handle, learningRate, &loss))
    return loss
  }

  /// The number of steps that were taken, those of a checkpoint included.
  public var steps: Int64 { odtc_steps(handle) }

  /// The samples of a step.
  public var samplesOfStep: UInt32 { odtc_samples_of_step(handle) }

  /// An output of what was written to the inputs, in inference mode, until the next step or evaluation;
  /// of the first samples, where their number is given.
  public func evaluate(_ output: String? = nil, averages: Bool = false, samples: UInt32? = nil) throws
    -> UnsafeRawBufferPointer
  {
    var result = odtc_tensor()
    let count = samples ?? samplesOfStep
    try check(odtc_evaluate_samples(handle, output, averages ? 1 : 0, count, &result))
    return UnsafeRawBufferPointer(start: result.data, count: result.bytes)
  }

  /// The lengths, such as numbers of tokens, that the step was compiled for (`odtc compile --lengths`): the
  /// longest first, with which a trainer begins. None where it has one size alone.
  public var lengths: [UInt64] {
    var found: [UInt64] = []
    var length = odtc_length_at(handle, 0)
    while length > 0 {
      found.append(length)
      length = odtc_length_at(handle, found.count)
    }
    return found
  }

  /// Takes steps and evaluations from now on at one of the `lengths`. Inputs and labels have other shapes
  /// then: write all of them anew. Rows that are shorter are filled up by the app: labels with the value
  /// that the loss ignores, a mask with zeros.
  ///
  /// Throws where the step was not compiled for it; nothing is changed then.
  public func setLength(_ length: UInt64) throws { try check(odtc_set_length(handle, length)) }

  /// Takes steps from now on by the fastest plan whose tensors fit in so many bytes.
  public func setBudget(_ bytes: UInt64) throws { try check(odtc_set_budget(handle, bytes)) }

  /// Writes weights, state and the number of steps to a file, whole or not at all.
  public func save(to file: URL) throws { try check(odtc_save(handle, file.path)) }

  /// Writes the same without weights that are not trained: one adapter of a step with LoRA, with its state and
  /// number of steps. `load` takes it up, and leaves the base as it is.
  public func saveAdapter(to file: URL) throws { try check(odtc_save_adapter(handle, file.path)) }

  /// Takes them up again; what is damaged, or does not fit, changes nothing.
  public func load(from file: URL) throws { try check(odtc_load(handle, file.path)) }

  /// The bytes of a file of `save`.
  public func checkpoint() throws -> Data {
    var bytes: UnsafeMutableRawPointer?
    var count = 0
    try check(odtc_save_bytes(handle, &bytes, &count))
    return Data(bytesNoCopy: bytes!, count: count, deallocator: .free)
  }

  /// Takes up the bytes of such a file.
  public func load(from checkpoint: Data) throws {
    try checkpoint.withUnsafeBytes { bytes in
      try check(odtc_load_bytes(handle, bytes.baseAddress, bytes.count))
    }
  }

  /// Lets the step that runs, or the next one, end with `ODTC_CANCELLED`; with `now` between two
  /// kernels: only `load` makes the weights whole then.
  public func cancel(now: Bool = false) { odtc_cancel(handle, now ? 1 : 0) }

  /// Of elements, as DLPack has them; nil of a type that no tensor has.
  private static func code<T>(of type: T.Type) -> Int32? {
    switch type {
    case is Int8.Type, is Int16.Type, is Int32.Type, is Int64.Type, is Int.Type: return 0
    case is UInt8.Type, is UInt16.Type, is UInt32.Type, is UInt64.Type, is UInt.Type: return 1
    case is Float.Type, is Double.Type: return 2
    case is Bool.Type: return 6
    default: return nil
    }
  }

  private func refusal(_ message: String) -> TrainerError {
    TrainerError(code: ODTC_USAGE.rawValue, message: message)
  }

  private func check(_ code: odtc_code) throws {
    if code != ODTC_OK {
      throw TrainerError(code: code.rawValue, message: String(cString: odtc_message(handle)))
    }
  }
}
