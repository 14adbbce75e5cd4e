builtin.module {
  tile.kernel "k0_contract" symbols ["s0", "s1", "s2"] {
  ^bb0(%0: !tile.buffer<f32, #dhlo.dims<[s0, 8, 36]>, #dhlo.dims<[0, 36, 1]>>, %1: !tile.buffer<f32, #dhlo.dims<[s0, 8, s1, s2]>, #dhlo.dims<[8*s1*s2, s1*s2, s2, 1]>>, %2: !tile.buffer<f32, #dhlo.dims<[8]>, #dhlo.dims<[1]>>, %3: !tile.buffer<f32, #dhlo.dims<[s0, 8, ((s1 + 1) floordiv 2)*((s2 + 1) floordiv 2)]>, #dhlo.dims<[8*((s1 + 1) floordiv 2)*((s2 + 1) floordiv 2), ((s1 + 1) floordiv 2)*((s2 + 1) floordiv 2), 1]>>):
    tile.contract %0, %1 into %3 batch <[s0]> extents <[8, ((s1 + 1) floordiv 2)*((s2 + 1) floordiv 2), 36]> window <array<i64: 3, 3>, array<i64: 2, 2>, array<i64: 1, 1>, array<i64: 1, 1>, #builtin.int<2>, #builtin.int<0>, #dhlo.dims<[(s1 + 1) floordiv 2, (s2 + 1) floordiv 2]>> : !tile.buffer<f32, #dhlo.dims<[s0, 8, 36]>, #dhlo.dims<[0, 36, 1]>>, !tile.buffer<f32, #dhlo.dims<[s0, 8, s1, s2]>, #dhlo.dims<[8*s1*s2, s1*s2, s2, 1]>>, !tile.buffer<f32, #dhlo.dims<[s0, 8, ((s1 + 1) floordiv 2)*((s2 + 1) floordiv 2)]>, #dhlo.dims<[8*((s1 + 1) floordiv 2)*((s2 + 1) floordiv 2), ((s1 + 1) floordiv 2)*((s2 + 1) floordiv 2), 1]>> {
    ^bb0(%4: index, %5: index, %6: index, %7: f32):
      %8 = tile.load %2[%5] : !tile.buffer<f32, #dhlo.dims<[8]>, #dhlo.dims<[1]>> -> f32
      %9 = arith.addf %7, %8 : f32
      %10 = arith.constant 0.000000e+00 : f32
      %11 = arith.maximumf %9, %10 : f32
      tile.yield %11 : f32
    }
  }
}
