-- worklease: check a fencing epoch against the mark in KEYS[1], move the mark, and produce the effect, in one step.
--
-- EVALSHA ... KEYS[1] = the lease's mark, further KEYS = those that the effect touches
--             ARGV[1] = the epoch in canonical decimal form
--             then, for each command of the effect: the number of its words, the words
-- Gives the commands' replies. Refuses with one of these error replies, and then nothing has been written:
--   STALEEPOCH <highest>   a later epoch has been here
--   BADEPOCH <why>         not an epoch, or the mark's key holds something else or cannot be read
-- Any other error comes from the effect's own commands, of which the earlier ones have happened.
-- Numbers here are doubles, exact up to 2^53-1: the largest epoch. The mark is stored as the text that was given.
local function canonical(text)
  return type(text) == 'string' and #text <= 16 and string.match(text, '^[1-9]%d*$') and tonumber(text) <= 9007199254740991
end

local epoch, mark = ARGV[1], redis.pcall('GET', KEYS[1])
if type(mark) == 'table' then
  return redis.error_reply('BADEPOCH ' .. mark.err)
end
if not canonical(epoch) or (mark and not canonical(mark)) then
  return redis.error_reply('BADEPOCH not an epoch from 1 to 9007199254740991')
end
if mark and tonumber(mark) > tonumber(epoch) then
  return redis.error_reply('STALEEPOCH ' .. mark)
end
if mark ~= epoch or #ARGV == 1 then -- Without an effect a write all the same, which a replica that lags refuses.
  redis.call('SET', KEYS[1], epoch)
end

local replies, next_word = {}, 2
while next_word <= #ARGV do
  local count = tonumber(ARGV[next_word])
  replies[#replies + 1] = redis.call(unpack(ARGV, next_word + 1, next_word + count))
  next_word = next_word + 1 + count
end
return replies
