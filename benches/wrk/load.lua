-- Requests of benches/harness/load.py. Arguments: nothing, "raw BYTES" or "form BYTES". Prints the result as JSON.

function init(args)
  if args[1] == "raw" then
    wrk.method = "POST"
    wrk.headers["Content-Type"] = "application/octet-stream"
    wrk.body = string.rep("x", tonumber(args[2]))
  elseif args[1] == "form" then
    wrk.method = "POST"
    wrk.headers["Content-Type"] = "multipart/form-data; boundary=bench"
    wrk.body = '--bench\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n'
      .. "Content-Type: application/octet-stream\r\n\r\n"
      .. string.rep("x", tonumber(args[2])) .. "\r\n--bench--\r\n"
  end
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "seconds": %.6f, "p50_us": %d, "failed": %d, "timeouts": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50),
    errors.connect + errors.read + errors.write + errors.status, errors.timeout
  ))
end
