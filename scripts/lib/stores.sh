# shellcheck shell=bash
# The one etcd and the one S3 server of a fleet, both on the host side of the network: cutting a cluster's link cuts it
# off from S3 but not from its own store, which it reaches through a unix socket.

stores_up() {
  etcd_up
  s3_up
}

etcd_socket() { echo "$(fleet_dir)/etcd.sock"; }

etcd_up() {
  local dir peer
  dir=$(fleet_dir)
  # etcd insists on host and port here, though nobody connects to them.
  peer=http://$(fleet_host_ip):2380
  process_running etcd || rm -f "$(etcd_socket)"*
  process_start etcd "$dir/log/etcd.log" "$TOOLCHAIN_BIN/etcd" --name "$FLEET_NAME" --data-dir "$dir/etcd" \
    --listen-client-urls "unix://$(etcd_socket)" --advertise-client-urls "http://$(fleet_host_ip):2379" \
    --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "$FLEET_NAME=$peer" \
    --unsafe-no-fsync --auto-compaction-retention 5m --log-level warn
  wait_for 30 "etcd's socket (log: $dir/log/etcd.log)" test -S "$(etcd_socket)"
}

s3_access_key() { s3_key access; }
s3_secret_key() { s3_key secret; }

# Keys are made once for each fleet.
s3_key() {
  local file
  file=$(fleet_dir)/s3-$1.key
  if [[ ! -s $file ]]; then
    (umask 077 && openssl rand -hex 16 >"$file.new" && mv "$file.new" "$file")
  fi
  cat "$file"
}

s3_up() {
  local dir
  dir=$(fleet_dir)
  # With the posix backend a bucket is a folder.
  mkdir -p "$dir/s3/$FLEET_BUCKET"
  ROOT_ACCESS_KEY_ID=$(s3_access_key) ROOT_SECRET_ACCESS_KEY=$(s3_secret_key) \
    process_start s3 "$dir/log/s3.log" "$TOOLCHAIN_BIN/versitygw" --port "$(fleet_s3_endpoint)" \
    --health /healthz --quiet posix "$dir/s3"
  wait_for 30 "the S3 server (log: $dir/log/s3.log)" \
    curl -fsS --max-time 2 -o /dev/null "http://$(fleet_s3_endpoint)/healthz"
}
