/// Images of 8 by 8 that are made here: a bright row or column for each class, in noise.
enum Samples {
  private static let classes = 10
  private static let side = 8

  /// Writes the batch of a step to its memory; the same step has the same batch, also after a stop.
  static func write(
    step: Int64, images: UnsafeMutableBufferPointer<Float>,
    labels: UnsafeMutableBufferPointer<Int32>
  ) {
    var numbers = Numbers(state: UInt64(step))
    for sample in 0..<labels.count {
      let kind = Int(numbers.next() % UInt64(classes))
      labels[sample] = Int32(kind)
      for pixel in 0..<(side * side) {
        let line = kind < classes / 2 ? pixel / side : pixel % side
        let bright: Float = line == kind % (classes / 2) ? 1 : 0
        images[sample * side * side + pixel] = bright + 0.3 * (numbers.nextFloat() - 0.5)
      }
    }
  }
}

/// Numbers that follow from where they begin (SplitMix64): those of the system differ from run to run.
private struct Numbers {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  /// One of [0, 1).
  mutating func nextFloat() -> Float { Float(next() >> 40) / Float(1 << 24) }
}
