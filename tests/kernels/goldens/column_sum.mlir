builtin.module {
  tile.kernel "k0_reduce" symbols ["s0", "s1"] {
  ^bb0(%0: !tile.buffer<f32, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>>, %1: !tile.buffer<f32, #dhlo.dims<[max(min((s0*s1) floordiv 16384, s0 floordiv 16, 256), 1), s1]>, #dhlo.dims<[s1, 1]>>):
    tile.parallel <[max(min((s0*s1) floordiv 16384, s0 floordiv 16, 256), 1)]> {
    ^bb0(%2: index):
      %3 = tile.size <[(s0 + max(min((s0*s1) floordiv 16384, s0 floordiv 16, 256), 1) - 1) floordiv max(min((s0*s1) floordiv 16384, s0 floordiv 16, 256), 1)]>
      %4 = tile.size <[s0]>
      %5 = arith.constant 0.000000e+00 : f32
      tile.lanes <[s1]> [] {
      ^bb0(%6: index):
        %7 = tile.loop <[(s0 + max(min((s0*s1) floordiv 16384, s0 floordiv 16, 256), 1) - 1) floordiv max(min((s0*s1) floordiv 16384, s0 floordiv 16, 256), 1)]> ["sum"] -> f32 {
        ^bb0(%8: index):
          %9 = arith.muli %2, %3 : index
          %10 = arith.addi %9, %8 : index
          %11 = arith.cmpi ult, %10, %4 : index
          %12 = tile.load %0[%10, %6] guard %11 : !tile.buffer<f32, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>> -> f32
          %13 = arith.select %11, %12, %5 : f32
          tile.yield %13 : f32
        }
        tile.store %7, %1[%2, %6] : f32, !tile.buffer<f32, #dhlo.dims<[max(min((s0*s1) floordiv 16384, s0 floordiv 16, 256), 1), s1]>, #dhlo.dims<[s1, 1]>>
        tile.yield
      }
    }
  }
  tile.kernel "k1_reduce" symbols ["s0", "s1"] {
  ^bb0(%0: !tile.buffer<f32, #dhlo.dims<[max(min((s0*s1) floordiv 16384, s0 floordiv 16, 256), 1), s1]>, #dhlo.dims<[s1, 1]>>, %1: !tile.buffer<f32, #dhlo.dims<[s1]>, #dhlo.dims<[1]>>):
    tile.lanes <[s1]> [] {
    ^bb0(%2: index):
      %3 = tile.loop <[max(min((s0*s1) floordiv 16384, s0 floordiv 16, 256), 1)]> ["sum"] -> f32 {
      ^bb0(%4: index):
        %5 = tile.load %0[%4, %2] : !tile.buffer<f32, #dhlo.dims<[max(min((s0*s1) floordiv 16384, s0 floordiv 16, 256), 1), s1]>, #dhlo.dims<[s1, 1]>> -> f32
        tile.yield %5 : f32
      }
      tile.store %3, %1[%2] : f32, !tile.buffer<f32, #dhlo.dims<[s1]>, #dhlo.dims<[1]>>
      tile.yield
    }
  }
}
