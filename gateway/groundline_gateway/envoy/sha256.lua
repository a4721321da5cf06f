-- sha256(text): the hash in hexadecimal (FIPS 180-4). Envoy gives its scripts none.
local band, bnot, bxor, ror, rshift = bit.band, bit.bnot, bit.bxor, bit.ror, bit.rshift

local ROUND, INITIAL = {}, {}
do
  -- The first 32 bits of the fractional parts of the cube and square roots of the first primes.
  local function fraction(root)
    return bit.tobit(math.floor((root - math.floor(root)) * 4294967296))
  end
  local candidate = 2
  while #ROUND < 64 do
    local is_prime = true
    for divisor = 2, math.floor(math.sqrt(candidate)) do
      is_prime = is_prime and candidate % divisor ~= 0
    end
    if is_prime then
      ROUND[#ROUND + 1] = fraction(candidate ^ (1 / 3))
      if #INITIAL < 8 then
        INITIAL[#INITIAL + 1] = fraction(math.sqrt(candidate))
      end
    end
    candidate = candidate + 1
  end
end

local words = {}

local function sha256(text)
  local bits = #text * 8
  local padded = text .. "\128" .. ("\0"):rep((55 - #text) % 64 + 4)
    .. string.char(band(rshift(bits, 24), 255), band(rshift(bits, 16), 255), band(rshift(bits, 8), 255), band(bits, 255))
  local h1, h2, h3, h4, h5, h6, h7, h8 = unpack(INITIAL)
  for start = 1, #padded, 64 do
    for i = 1, 16 do
      local b1, b2, b3, b4 = string.byte(padded, start + i * 4 - 4, start + i * 4 - 1)
      words[i] = bit.tobit(b1 * 16777216 + b2 * 65536 + b3 * 256 + b4)
    end
    for i = 17, 64 do
      local w15, w2 = words[i - 15], words[i - 2]
      local s0 = bxor(ror(w15, 7), ror(w15, 18), rshift(w15, 3))
      local s1 = bxor(ror(w2, 17), ror(w2, 19), rshift(w2, 10))
      words[i] = bit.tobit(words[i - 16] + s0 + words[i - 7] + s1)
    end
    local a, b, c, d, e, f, g, h = h1, h2, h3, h4, h5, h6, h7, h8
    for i = 1, 64 do
      local s1 = bxor(ror(e, 6), ror(e, 11), ror(e, 25))
      local t1 = h + s1 + bxor(band(e, f), band(bnot(e), g)) + ROUND[i] + words[i]
      local s0 = bxor(ror(a, 2), ror(a, 13), ror(a, 22))
      local t2 = s0 + bxor(band(a, b), band(a, c), band(b, c))
      a, b, c, d, e, f, g, h = bit.tobit(t1 + t2), a, b, c, bit.tobit(d + t1), e, f, g
    end
    h1, h2, h3, h4 = bit.tobit(h1 + a), bit.tobit(h2 + b), bit.tobit(h3 + c), bit.tobit(h4 + d)
    h5, h6, h7, h8 = bit.tobit(h5 + e), bit.tobit(h6 + f), bit.tobit(h7 + g), bit.tobit(h8 + h)
  end
  local hex = bit.tohex
  return hex(h1) .. hex(h2) .. hex(h3) .. hex(h4) .. hex(h5) .. hex(h6) .. hex(h7) .. hex(h8)
end
