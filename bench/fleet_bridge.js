// SPDX-License-Identifier: MIT
// chdb (npm) behind as much of ClickHouse's HTTP interface as millrace uses. node fleet_bridge.js DIR; prints its port.
const http = require('http'), zlib = require('zlib'), fs = require('fs'), path = require('path');
const {Session} = require('chdb');

const dir = process.argv[2], session = new Session(path.join(dir, 'chdb')), columns = {
  profile_samples: 'service String, event String, unit String, time DateTime, host String, comm String, ' +
    'systemd_unit String, container String, pod String, stack UInt64, samples UInt64, value UInt64, batch UInt64',
  profile_stacks: 'service String, hash UInt64, stack Array(String), objects Array(String), kernel UInt16, ' +
    'last_seen DateTime',
};
const run = sql => session.query(sql.replace(/ FORMAT TabSeparated$/, ''), 'TabSeparated');
run('CREATE DATABASE IF NOT EXISTS fleet');
run('USE fleet');

http.createServer((request, response) => {
  const parts = [];
  request.on('data', part => parts.push(part));
  request.on('end', () => {
    let body = Buffer.concat(parts), sql = new URL(request.url, 'http://h').searchParams.get('query');
    try {
      if (!sql) {
        sql = body.toString();
      } else if (sql.endsWith('FORMAT RowBinary')) {
        const table = sql.split(' ')[2], rows = path.join(dir, 'rows.bin');
        fs.writeFileSync(rows, zlib.gunzipSync(body));
        sql = `INSERT INTO ${table} SELECT * FROM file('${rows}', 'RowBinary', '${columns[table]}')`;
      }
      response.end(run(sql));
    } catch (error) {
      response.statusCode = 500;
      response.end(String(error));
    }
  });
}).listen(0, '127.0.0.1', function () { console.log(this.address().port); });
