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
      %12 = arith.constant 1.000000e+00 : f32
      %13 = arith.divf %12, %7 : f32
      tile.lanes <[s1]> [] {
      ^bb0(%14: index):
        %15 = tile.load %3[%14] : !tile.buffer<f32, #dhlo.dims<[s1]>, #dhlo.dims<[1]>> -> f32
        %16 = arith.mulf %15, %13 : f32
        tile.store %16, %1[%2, %14] : f32, !tile.buffer<f32, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>>
        tile.yield
      }
    }
  }
  tile.kernel "k1_reduce" symbols ["s0", "s1"] {
  ^bb0(%0: !tile.buffer<f32, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>>, %1: !tile.buffer<f32, #dhlo.dims<[s0, max((s1 + 4095) floordiv 4096, 1)]>, #dhlo.dims<[max((s1 + 4095) floordiv 4096, 1), 1]>>, %2: !tile.buffer<f32, #dhlo.dims<[s0, max((s1 + 4095) floordiv 4096, 1)]>, #dhlo.dims<[max((s1 + 4095) floordiv 4096, 1), 1]>>):
    tile.parallel <[s0, max((s1 + 4095) floordiv 4096, 1)]> {
    ^bb0(%3: index, %4: index):
      %5 = tile.scratch : !tile.buffer<f32, #dhlo.dims<[4096]>, #dhlo.dims<[1]>>
      %6 = tile.size <[4096]>
      %7 = tile.size <[s1]>
      %8 = arith.constant 0xff800000 : f32
      %9 = tile.lanes <[4096]> ["max"] -> f32 {
      ^bb0(%10: index):
        %11 = arith.muli %4, %6 : index
        %12 = arith.addi %11, %10 : index
        %13 = arith.cmpi ult, %12, %7 : index
        %14 = tile.load %0[%3, %12] guard %13 : !tile.buffer<f32, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>> -> f32
        %15 = arith.select %13, %14, %8 : f32
        tile.store %15, %5[%10] : f32, !tile.buffer<f32, #dhlo.dims<[4096]>, #dhlo.dims<[1]>>
        tile.yield %15 : f32
      }
      %16 = math.absf %9 : f32
      %17 = arith.constant 0x7f800000 : f32
      %18 = arith.cmpf oeq, %16, %17 : f32
      %19 = arith.constant 0.000000e+00 : f32
      %20 = arith.select %18, %19, %9 : f32
      %21 = tile.lanes <[4096]> ["sum"] -> f32 {
      ^bb0(%22: index):
        %23 = tile.load %5[%22] : !tile.buffer<f32, #dhlo.dims<[4096]>, #dhlo.dims<[1]>> -> f32
        %24 = arith.subf %23, %20 : f32
        %25 = math.exp %24 : f32
        tile.yield %25 : f32
      }
      tile.store %21, %1[%3, %4] : f32, !tile.buffer<f32, #dhlo.dims<[s0, max((s1 + 4095) floordiv 4096, 1)]>, #dhlo.dims<[max((s1 + 4095) floordiv 4096, 1), 1]>>
      tile.store %9, %2[%3, %4] : f32, !tile.buffer<f32, #dhlo.dims<[s0, max((s1 + 4095) floordiv 4096, 1)]>, #dhlo.dims<[max((s1 + 4095) floordiv 4096, 1), 1]>>
    }
  }
  tile.kernel "k2_reduce" symbols ["s0", "s1"] {
  ^bb0(%0: !tile.buffer<f32, #dhlo.dims<[s0, max((s1 + 4095) floordiv 4096, 1)]>, #dhlo.dims<[max((s1 + 4095) floordiv 4096, 1), 1]>>, %1: !tile.buffer<f32, #dhlo.dims<[s0, max((s1 + 4095) floordiv 4096, 1)]>, #dhlo.dims<[max((s1 + 4095) floordiv 4096, 1), 1]>>, %2: !tile.buffer<f32, #dhlo.dims<[s0]>, #dhlo.dims<[1]>>, %3: !tile.buffer<f32, #dhlo.dims<[s0]>, #dhlo.dims<[1]>>):
    tile.parallel <[s0]> {
    ^bb0(%4: index):
      %5 = tile.lanes <[max((s1 + 4095) floordiv 4096, 1)]> ["max"] -> f32 {
      ^bb0(%6: index):
        %7 = tile.load %0[%4, %6] : !tile.buffer<f32, #dhlo.dims<[s0, max((s1 + 4095) floordiv 4096, 1)]>, #dhlo.dims<[max((s1 + 4095) floordiv 4096, 1), 1]>> -> f32
        tile.yield %7 : f32
      }
      %8 = tile.lanes <[max((s1 + 4095) floordiv 4096, 1)]> ["sum"] -> f32 {
      ^bb0(%9: index):
        %10 = tile.load %0[%4, %9] : !tile.buffer<f32, #dhlo.dims<[s0, max((s1 + 4095) floordiv 4096, 1)]>, #dhlo.dims<[max((s1 + 4095) floordiv 4096, 1), 1]>> -> f32
        %11 = arith.subf %10, %5 : f32
        %12 = math.exp %11 : f32
        %13 = tile.load %1[%4, %9] : !tile.buffer<f32, #dhlo.dims<[s0, max((s1 + 4095) floordiv 4096, 1)]>, #dhlo.dims<[max((s1 + 4095) floordiv 4096, 1), 1]>> -> f32
        %14 = arith.mulf %13, %12 : f32
        tile.yield %14 : f32
      }
      tile.store %8, %2[%4] : f32, !tile.buffer<f32, #dhlo.dims<[s0]>, #dhlo.dims<[1]>>
      tile.store %5, %3[%4] : f32, !tile.buffer<f32, #dhlo.dims<[s0]>, #dhlo.dims<[1]>>
    }
  }
  tile.kernel "k3_flat" symbols ["s0", "s1"] {
  ^bb0(%0: !tile.buffer<f32, #dhlo.dims<[s0]>, #dhlo.dims<[1]>>, %1: !tile.buffer<f32, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>>, %2: !tile.buffer<f32, #dhlo.dims<[s0]>, #dhlo.dims<[1]>>, %3: !tile.buffer<f32, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>>):
    tile.parallel <[s0, s1]> {
    ^bb0(%4: index, %5: index):
      %6 = tile.load %1[%4, %5] : !tile.buffer<f32, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>> -> f32
      %7 = tile.load %0[%4] : !tile.buffer<f32, #dhlo.dims<[s0]>, #dhlo.dims<[1]>> -> f32
      %8 = arith.subf %6, %7 : f32
      %9 = math.exp %8 : f32
      %10 = arith.constant 1.000000e+00 : f32
      %11 = tile.load %2[%4] : !tile.buffer<f32, #dhlo.dims<[s0]>, #dhlo.dims<[1]>> -> f32
      %12 = arith.divf %10, %11 : f32
      %13 = arith.mulf %9, %12 : f32
      tile.store %13, %3[%4, %5] : f32, !tile.buffer<f32, #dhlo.dims<[s0, s1]>, #dhlo.dims<[s1, 1]>>
    }
  }
}
