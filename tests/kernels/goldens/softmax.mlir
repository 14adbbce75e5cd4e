builtin.module {
  tile.kernel "k0_reduce" symbols ["s0", "s1"] {
  ^bb0(%0: !tile.buffer<f32, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>>, %1: !tile.buffer<f32, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>>):
    tile.parallel <[s0]> {
    ^bb0(%2: index):
      %3 = tile.scratch : !tile.buffer<f32, #dhlo.dims<[s1]>, #dhlo.dims<[1]>>
      %4 = tile.lanes <[s1]> ["max"] -> f32 {
      ^bb0(%5: index):
        %6 = tile.load %0[%2, %5] : !tile.buffer<f32, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>> -> f32
        tile.yield %6 : f32
      }
      %7 = tile.lanes <[s1]> ["sum"] -> f32 {
      ^bb0(%8: index):
        %9 = tile.load %0[%2, %8] : !tile.buffer<f32, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>> -> f32
        %10 = arith.subf %9, %4 : f32
        %11 = math.exp %10 : f32
        tile.store %11, %3[%8] : f32, !tile.buffer<f32, #dhlo.dims<[s1]>, #dhlo.dims<[1]>>
        tile.yield %11 : f32
      }
      tile.lanes <[s1]> [] {
      ^bb0(%12: index):
        %13 = tile.load %3[%12] : !tile.buffer<f32, #dhlo.dims<[s1]>, #dhlo.dims<[1]>> -> f32
        %14 = arith.divf %13, %7 : f32
        tile.store %14, %1[%2, %12] : f32, !tile.buffer<f32, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>>
        tile.yield
      }
    }
  }
}
